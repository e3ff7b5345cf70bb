test_that("a fit has the numbers of the command to the last digit", {
  made <- species()
  out <- tempfile()
  told <- command("fit", made$files$occurrences, made$files$layers, "-c", "biome", "-f", "lq", "--folds", "2",
                  "--bootstrap", "2", "--permutations", "2", "--output", "raw", "-o", out)
  expect_equal(told$status, "done")
  theirs <- read_maxent(out)
  fit <- a_fit()
  same <- c("weights", "gap", "gain", "scores", "thresholds", "replicates", "importance", "jackknife", "responses",
            "records", "ranges", "levels")
  for (name in same) expect_identical(fit[[name]], theirs[[name]], label = name)
  for (type in c("cloglog", "raw")) {
    expect_identical(values_of(predict(fit, made$env, type)), values_of(terra::rast(file.path(out, "maps", paste0(type, ".tif")))))
  }
  scores <- told$result$species[[1]]
  expect_identical(fit$gain, scores$gain)
  expect_identical(fit$scores[["auc"]], scores$auc)

  map <- tempfile(fileext = ".tif")
  told <- command("project", file.path(out, "model.json"), made$files$future, "-o", map)
  drawn <- project(fit, made$future, quiet = TRUE)
  for (what in c("cloglog", "mess", "exdet", "clamping")) {
    expect_identical(values_of(drawn[[what]]), values_of(terra::rast(told$result$map$files[[what]])), label = what)
  }
  told <- command("evaluate", file.path(out, "model.json"), made$files$occurrences, made$files$layers)
  ours <- evaluate(fit, made$occ, made$env, quiet = TRUE)
  expect_identical(unclass(ours), told$result)
})

test_that("models are files of the command", {
  fit <- a_fit()
  path <- write_maxent(fit, tempfile(fileext = ".json"))
  expect_error(write_maxent(fit, path), "overwrite = TRUE", class = "maxent_ValueError")
  again <- read_maxent(path)
  expect_identical(again$weights, fit$weights)
  expect_error(response(again), "read from a file alone", class = "maxent_error")
  expect_identical(values_of(predict(again, species()$env)), values_of(predict(fit)))
})
