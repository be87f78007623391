-- A number that another change has.
SELECT 1;
