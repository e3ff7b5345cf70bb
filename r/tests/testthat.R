library(testthat)
library(maxentpy)

test_check("maxentpy")
