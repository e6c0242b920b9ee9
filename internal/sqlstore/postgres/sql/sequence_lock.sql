-- Nobody takes an id while the sequence is moved: an insert takes its lock on the table before its id.
LOCK TABLE __alkstore_live IN EXCLUSIVE MODE;
