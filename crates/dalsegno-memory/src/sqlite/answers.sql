-- What an operation was answered: whether what it wrote had been there before. Null for operations of before.
ALTER TABLE operation ADD COLUMN duplicate INTEGER;
