INSERT INTO __alkstore_payloads (id, payload) VALUES (:id, :payload);
