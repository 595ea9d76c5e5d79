"""Personal data: values that a key for each subject encrypts, until that key is destroyed."""
