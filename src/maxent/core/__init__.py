"""The one problem: an entropy on a domain plus a potential on moments, its solvers and bounds."""
