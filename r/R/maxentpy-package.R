#' maxentpy: species distributions by maximum entropy
#'
#' [maxent()] fits, [tune()] chooses settings, [predict.maxentpy()] draws maps, [evaluate()] scores, [explain()] says why.
#' All of it is done by the Python package maxent, which [install_maxent()] brings; numbers are those of its command.
#'
#' @keywords internal
"_PACKAGE"
