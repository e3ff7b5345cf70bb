test_that("a fit prints, sums up, draws and becomes a list", {
  fit <- a_fit()
  expect_output(print(fit), "<maxent: Arbor fictus, .* duality gap")
  expect_output(print(summary(fit)), "importance, percent.*thresholds")
  plain <- as.list(fit)
  expect_false(inherits(plain, "maxentpy"))
  expect_equal(plain$settings$features, "lq")
  grDevices::pdf(NULL)
  on.exit(grDevices::dev.off())
  for (what in c("response", "importance", "roc", "omission", "map")) expect_identical(plot(fit, what), fit)
  expect_error(plot(fit, "moon"), "must be one of")
  expect_error(plot(fit, "roc", variable = "biome"), "no effect")
  skip_if_not_installed("ggplot2")
  for (what in c("response", "importance", "roc", "omission", "map")) {
    drawn <- ggplot2::ggplot_build(ggplot2::autoplot(fit, what))
    expect_gt(nrow(drawn$data[[1]]), 0)
  }
})

test_that("curves and importance are tables", {
  fit <- a_fit()
  curve <- response(fit, "temperature")
  expect_true(all(curve$y >= 0 & curve$y <= 1))
  expect_true(all(curve$low <= curve$high))
  expect_equal(nrow(response(fit, "biome")), 6)
  expect_equal(sum(varimp(fit)$contribution), 100)
  expect_setequal(jackknife(fit)$variable, fit$variables)
  expect_error(response(fit, "moon"), "no response to moon; the fit has")
  expect_error(varimp(quick(species()$occ, species()$env)), "permutations = 0")
})

test_that("an explanation adds up to the exponent of a place", {
  fit <- a_fit()
  made <- species()
  xy <- fit$records[1:2, c("x", "y")]
  told <- explain(fit, xy, made$env)
  places <- attr(told, "places")
  expect_equal(nrow(told), 12)
  expect_identical(explain(fit, xy), told)
  expect_equal(told$factor, exp(told$share))
  expect_equal(places$cloglog, terra::extract(predict(fit), xy)$cloglog, tolerance = 1e-6)
  shares <- tapply(told$share, told$place, sum)
  expect_equal(unname(diff(shares)), log(places$raw[2] / places$raw[1]), tolerance = 1e-9)
  expect_error(explain(fit, cbind(0, 0), made$env), "outside the layers", class = "maxent_NoDataError")
  expect_error(explain(fit, cbind(NA_real_, 0.5), made$env), "row 1 lacks a coordinate")
  skip_if_not_installed("sf")
  points <- sf::st_transform(sf::st_as_sf(xy, coords = 1:2, crs = 4326), 3857)
  expect_equal(explain(fit, points, made$env)$share, told$share)
})

test_that("maps are compared as the mathematics says", {
  fit <- a_fit()
  made <- species()
  now <- predict(fit, made$env)
  then <- predict(fit, made$future)
  p <- values_of(now) / sum(values_of(now), na.rm = TRUE)
  q <- values_of(then) / sum(values_of(then), na.rm = TRUE)
  found <- niche_overlap(now, then)
  expect_equal(found$D, 1 - sum(abs(p - q), na.rm = TRUE) / 2)
  expect_equal(found$I, sum(sqrt(p * q), na.rm = TRUE))
  change <- range_change(now, list(warm = then, same = now), threshold = 0.4, quiet = TRUE)
  a <- values_of(now) >= 0.4
  b <- values_of(then) >= 0.4
  expect_equal(change$scenario, c("warm", "same"))
  expect_equal(change$lost_cells[1], sum(a & !b, na.rm = TRUE))
  expect_equal(change$kept_cells[1], sum(a & b, na.rm = TRUE))
  expect_equal(change$change_percent[2], 0)
  expect_s4_class(attr(change, "maps")[["change:warm"]], "SpatRaster")
  by_rule <- range_change(fit, then, quiet = TRUE)
  expect_equal(by_rule$threshold, fit$thresholds$value[fit$thresholds$name == "10 percentile training presence"])
  expect_error(range_change(now, then), "threshold must be a number")
  expect_error(niche_overlap(now, then, test = "identity"), "two fits")
})

test_that("similarity of maps and of tables agree", {
  fit <- a_fit()
  made <- species()
  xy <- fit$records[1:5, c("x", "y")]
  rows <- terra::extract(made$future, xy)
  on_map <- terra::extract(mess(fit, made$future)$mess, xy)$mess
  expect_equal(mess(fit, rows)$mess, on_map, tolerance = 1e-6)
  expect_equal(exdet(fit, rows)$exdet, terra::extract(exdet(fit, made$future), xy)$exdet, tolerance = 1e-6)
  expect_equal(predict(fit, rows), terra::extract(predict(fit, made$future), xy)$cloglog, tolerance = 1e-6)
})

test_that("a fit outlives its session", {
  fit <- a_fit()
  path <- tempfile(fileext = ".rds")
  saveRDS(fit, path)
  again <- readRDS(path)
  again$file <- file.path(tempdir(), "gone", "model.json")
  expect_identical(values_of(predict(again, species()$env)), values_of(predict(fit)))
})

test_that("terra's project is still there", {
  skip_without_maxent()
  point <- project(terra::vect(cbind(0, 0), crs = "EPSG:4326"), "EPSG:3857")
  expect_equal(unname(terra::crds(point)[1, ]), c(0, 0), tolerance = 1e-6)
})
