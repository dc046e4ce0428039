-- the best %(n)s passages by vector, by words and by learnt words, fused by reciprocal ranks
WITH question AS (
    SELECT replace(plainto_tsquery('english', %(question)s)::text, '&', '|')::tsquery AS query
), by_vector AS (
    SELECT id, row_number() OVER (ORDER BY vector <=> %(vector)s::vector, id) AS rank
    FROM passages ORDER BY vector <=> %(vector)s::vector LIMIT %(n)s
), by_words AS (
    SELECT id, row_number() OVER (ORDER BY ts_rank_cd(words, query, 1) DESC, id) AS rank
    FROM passages, question WHERE words @@ query ORDER BY rank LIMIT %(n)s
), by_learnt AS (
    SELECT id, row_number() OVER (ORDER BY learnt <#> %(learnt)s::sparsevec, id) AS rank
    FROM passages ORDER BY learnt <#> %(learnt)s::sparsevec LIMIT %(n)s
), fused AS (
    SELECT id, sum(1.0 / (60 + rank)) AS score
    FROM (SELECT * FROM by_vector UNION ALL SELECT * FROM by_words UNION ALL SELECT * FROM by_learnt) AS ranks
    GROUP BY id ORDER BY score DESC, id LIMIT %(n)s
)
SELECT id, text FROM fused JOIN passages USING (id) ORDER BY score DESC, id
