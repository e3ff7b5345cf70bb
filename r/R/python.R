# Python: where it is, what it says, and how that becomes R.

.state <- new.env(parent = emptyenv())
.venv <- "r-maxent"

#' Is maxent there?
#'
#' Python is looked for in this order: the variable `MAXENT_PYTHON`, the Python that 'reticulate' runs already or was told
#' to use (`RETICULATE_PYTHON`), a virtual environment `.venv` in the working directory, and the one that
#' [install_maxent()] makes.
#'
#' @return `maxent_available()` is `TRUE` or `FALSE`; `maxent_version()` the version of maxent, and where its Python is
#'   as the attribute `python`.
#' @examples
#' maxent_available()
#' @export
maxent_available <- function() {
  !inherits(tryCatch(.bridge(), maxent_error = identity), "condition")
}

#' @rdname maxent_available
#' @export
maxent_version <- function() {
  structure(.ask("version"), python = reticulate::py_config()$python)
}

#' Make a Python environment with maxent
#'
#' Makes a virtual environment and installs maxent there. Needed once for each user, and only where no other Python has
#' it. A package that was installed earlier is brought up to date.
#'
#' @param package What to give to pip: `"maxent[app]"`, a folder of its sources, or a wheel.
#' @param envname Name of the virtual environment.
#' @param python The Python (3.11 or later) to make it with; `NULL` takes the one that 'reticulate' finds.
#' @param ... Passed on to [reticulate::virtualenv_install()].
#' @return The path of its Python, invisibly.
#' @examples
#' \dontrun{
#' install_maxent()
#' }
#' @export
install_maxent <- function(package = "maxent[app]", envname = "r-maxent", python = NULL, ...) {
  if (!reticulate::virtualenv_exists(envname)) {
    reticulate::virtualenv_create(envname, python = python, packages = NULL)
  }
  reticulate::virtualenv_install(envname, packages = package, pip_options = "--upgrade", ...)
  found <- reticulate::virtualenv_python(envname)
  message("maxent is in ", found, "; restart R to use it")
  invisible(found)
}

.maxent_python <- function() {
  asked <- Sys.getenv("MAXENT_PYTHON")
  if (nzchar(asked)) {
    if (!file.exists(asked)) {
      .stop("MAXENT_PYTHON is ", asked, ", which is not there; set it to a Python that has maxent, ",
            "or unset it and call install_maxent()", kind = "python")
    }
    return(asked)
  }
  if (reticulate::py_available() || nzchar(Sys.getenv("RETICULATE_PYTHON"))) return(NULL)
  beside <- file.path(".venv", c("bin/python", "Scripts/python.exe"))
  beside <- beside[file.exists(beside)]
  if (length(beside)) return(normalizePath(beside[1], mustWork = TRUE, winslash = "/"))
  if (.venv_made()) return(reticulate::virtualenv_python(.venv))
  NULL
}

.venv_made <- function() {
  isTRUE(tryCatch(reticulate::virtualenv_exists(.venv), error = function(e) FALSE))
}

.bridge <- function() {
  if (!is.null(.state$bridge)) return(.state$bridge)
  python <- .maxent_python()
  # a link into an environment must stay one: normalised, it is the Python that made it
  if (!is.null(python) && !reticulate::py_available()) {
    suppressWarnings(reticulate::use_python(python, required = TRUE))
  }
  place <- system.file("python", package = "maxentpy")
  .state$bridge <- tryCatch(
    suppressWarnings(reticulate::import_from_path("maxentpy_bridge", place, convert = TRUE)),
    error = function(error) .no_bridge(conditionMessage(error))
  )
  .state$bridge
}

.no_bridge <- function(why) {
  where <- tryCatch(reticulate::py_config()$python, error = function(e) NULL)
  advice <- "Call install_maxent(), or set MAXENT_PYTHON to a Python that has maxent, and restart R."
  if (is.null(where)) .stop("no Python was found. ", advice, kind = "python")
  if (grepl("No module named '?maxent'?(\\s|$)", why)) {
    .stop(where, " has no package maxent. ", advice, kind = "python")
  }
  lacking <- regmatches(why, regexec("No module named '([A-Za-z_]+)'", why))[[1]]
  if (length(lacking) == 2) {
    .stop(where, " has no package ", lacking[2], ", which maps need: install maxent[app] there, or call install_maxent() ",
          "and restart R", kind = "python")
  }
  .stop("the maxent of ", where, " is older than this R package needs (", .line(why), "). Bring it up to date, or call ",
        "install_maxent() and restart R.", kind = "python")
}

.line <- function(text) trimws(gsub("\\s+", " ", sub("\n(Run|Detailed).*$", "", text)))

#' Errors and notes of maxent
#'
#' What Python refuses becomes an R error of class `maxent_error` (and of `maxent_ValueError` and the like), in one line
#' and with the arguments' names of R. What maxent assumed is a [message()], what nobody should miss a [warning()], of
#' classes `maxent_note` and `maxent_caution`: `suppressMessages()` and `tryCatch()` work as always. Esc or Ctrl-C stops
#' a fit as any other computation, and leaves nothing half-written behind.
#'
#' @name maxent_error
#' @examples
#' tryCatch(read_maxent("no-such-model.json"), maxent_error = conditionMessage)
NULL

.stop <- function(..., kind = NULL, call = NULL) {
  classes <- c(if (!is.null(kind)) paste0("maxent_", kind), "maxent_error", "error", "condition")
  stop(structure(class = classes, list(message = paste0(...), call = call)))
}

# A function of the bridge; `quiet` keeps its notes, a bar shows its steps.
.ask <- function(name, ..., .quiet = FALSE, .progress = FALSE) {
  bridge <- .bridge()
  notes <- character()
  bar <- if (.progress) .bar()
  tell <- function(kind, text) {
    if (kind == "note") notes <<- c(notes, text) else if (!is.null(bar)) bar$step(text)
    NULL
  }
  answer <- bridge$call(name, tell, list(...))
  if (!is.null(bar)) bar$close()
  if (!is.null(answer$interrupted)) .interrupt()
  if (!is.null(answer$error)) .stop(answer$error, kind = answer$kind, call = .caller())
  # with conditions only now: none may leave through Python's frames
  if (!.quiet) for (note in unique(notes)) .told(note)
  answer$value
}

.told <- function(note) {
  if (startsWith(note, "caution: ")) {
    warning(structure(class = c("maxent_caution", "warning", "condition"),
                      list(message = sub("^caution: ", "", note), call = NULL)))
  } else {
    message(structure(class = c("maxent_note", "message", "condition"), list(message = paste0(note, "\n"), call = NULL)))
  }
}

# The call that a user typed, or the function alone where the call would fill the screen.
.caller <- function() {
  own <- getNamespace("maxentpy")
  for (frame in seq_len(sys.nframe())) {
    if (!identical(topenv(environment(sys.function(frame))), own)) next
    call <- sys.call(frame)
    if (!is.name(call[[1]])) return(NULL)
    return(if (sum(nchar(deparse(call, nlines = 3))) > 200) as.call(list(call[[1]])) else call)
  }
  NULL
}

.interrupt <- function() {
  signalCondition(structure(class = c("interrupt", "condition"), list(message = "interrupted", call = NULL)))
  invokeRestart("abort")
}

.bar <- function() {
  steps <- c("records", "selection", "fit", "intervals", "evaluation", "cross-validation", "replicates", "importance",
             "jackknife", "response curves", "maps", "report")
  bar <- utils::txtProgressBar(0, length(steps), style = 3)
  list(
    step = function(name) {
      at <- match(name, steps)
      if (!is.na(at)) utils::setTxtProgressBar(bar, at - 1, label = name)
    },
    close = function() close(bar)
  )
}

# Doubles that came as bytes, texts, and tables of both.
.doubles <- function(bytes) readBin(bytes, "double", n = length(bytes) / 8, endian = .Platform$endian)

.column <- function(given) {
  if (is.raw(given)) .doubles(given) else as.character(unlist(given))
}

.table <- function(columns) {
  if (is.null(columns) || !length(columns)) return(data.frame())
  as.data.frame(lapply(columns, .column), check.names = FALSE, optional = TRUE, stringsAsFactors = FALSE)
}
