RELEASE __alkstore;
