"""The report in the forms that CI systems take, and whether it makes a job fail."""
