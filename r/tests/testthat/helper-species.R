# A small species and a quick fit that the tests share; without Python they are skipped, and say why.
skip_without_maxent <- function() {
  why <- tryCatch({
    maxent_version()
    NULL
  }, maxent_error = conditionMessage)
  if (!is.null(why)) {
    if (nzchar(Sys.getenv("MAXENT_REQUIRE_ALL"))) stop(why)
    skip(why)
  }
}

.kept <- new.env()

species <- function() {
  skip_without_maxent()
  if (is.null(.kept$made)) .kept$made <- virtual_species(30, 40, 60, seed = 3)
  .kept$made
}

quick <- function(occ, env, ...) {
  given <- utils::modifyList(
    list(features = "lq", cv = "none", bootstrap = 0, jackknife = FALSE, permutations = 0, quiet = TRUE), list(...)
  )
  do.call(maxent, c(list(occ, env), given))
}

a_fit <- function() {
  if (is.null(.kept$fit)) {
    made <- species()
    .kept$fit <- maxent(made$occ, made$env, features = "lq", bootstrap = 2, folds = 2, permutations = 2, quiet = TRUE,
                        output = "raw")
  }
  .kept$fit
}

values_of <- function(raster) as.vector(terra::values(raster))

command <- function(...) {
  run <- suppressWarnings(system2(reticulate::py_config()$python, c("-m", "maxent", "--json", shQuote(c(...))),
                                  stdout = TRUE, stderr = FALSE))
  maxentpy:::.from_json(paste(run, collapse = "\n"))
}
