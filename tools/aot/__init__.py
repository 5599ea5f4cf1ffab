"""`make aot`: whether the programs of the product compile for TPUs that are not there."""
