"""Parameters of records, which several algorithms have."""

from pathlib import Path

from qgis.core import (
    QgsProcessing,
    QgsProcessingException,
    QgsProcessingParameterFeatureSource,
    QgsProcessingParameterField,
    QgsProcessingParameterString,
)

from ..inputs import file_name, vector_file

RECORDS, SPECIES_FIELD, SPECIES = "RECORDS", "SPECIES_FIELD", "SPECIES"


def add_records(algorithm, title="Records of the species"):
    """Points, and which of them."""
    algorithm.addParameter(
        QgsProcessingParameterFeatureSource(RECORDS, title, [QgsProcessing.TypeVectorPoint])
    )
    algorithm.addParameter(
        QgsProcessingParameterField(
            SPECIES_FIELD,
            "Field of the species' names (empty: looked for)",
            parentLayerParameterName=RECORDS,
            optional=True,
        )
    )
    algorithm.addParameter(
        QgsProcessingParameterString(SPECIES, "Only these species (separated by ;)", optional=True)
    )


def record_words(algorithm, parameters, context, feedback, folder):
    """The file of the records, and the options that say how they are read."""
    source = algorithm.parameterAsSource(parameters, RECORDS, context)
    if source is None:
        raise QgsProcessingException(algorithm.invalidSourceError(parameters, RECORDS))
    path = Path(folder) / file_name(source, "records")
    words = [vector_file(source, path, context, feedback, points=True)]
    fields = algorithm.parameterAsFields(parameters, SPECIES_FIELD, context)
    if fields:
        words += ["--species-column", fields[0]]
    named = algorithm.parameterAsString(parameters, SPECIES, context).split(";")
    for name in filter(None, map(str.strip, named)):
        words += ["--species", name]
    return words
