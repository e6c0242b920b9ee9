SAVEPOINT __alkstore;
