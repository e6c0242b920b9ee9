LISTEN __alkstore;
