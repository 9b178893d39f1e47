"""Operations on the schema registry."""
