# The R code of the page "coming from R", where the package is checked in a copy of the repository.
test_that("the page runs", {
  page <- Sys.getenv("MAXENT_PAGE")
  skip_if(!nzchar(page), "the page is no part of the package (make test-r runs it)")
  made <- species()
  set.seed(1)
  places <- data.frame(bio1 = rnorm(200), biome = sample(letters[1:3], 200, TRUE))
  places$pa <- as.numeric(runif(200) < plogis(places$bio1))
  names <- list2env(list(occ = made$occ, env = made$env, future = made$future, places = places), parent = globalenv())
  lines <- readLines(page, encoding = "UTF-8")
  open <- grep("^```\\{code-block\\} r$", lines)
  run <- open[lines[open + 1] == ":class: run"]
  expect_gt(length(run), 5)
  grDevices::pdf(NULL)
  on.exit(grDevices::dev.off())
  for (first in run) {
    last <- first + which(lines[-seq_len(first)] == "```")[1]
    code <- parse(text = lines[(first + 2):(last - 1)])
    utils::capture.output(for (part in code) expect_error(suppressMessages(print(eval(part, names))), NA))
  }
})
