"""One live decision: what it observed, decided and believes, kept in a store."""
