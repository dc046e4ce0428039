-- the best %(n)s passages by vector and by words, fused by reciprocal ranks
WITH asked AS (
    SELECT replace(plainto_tsquery('english', %(question)s)::text, '&', '|')::tsquery AS query
), near AS (
    SELECT id, vector <#> %(vector)s::vector AS distance FROM passages
    WHERE metadata @> %(where)s
    ORDER BY vector <#> %(vector)s::vector LIMIT %(n)s
), alike AS (
    SELECT id, ts_rank_cd(words, query, 1) AS score FROM passages, asked
    WHERE words @@ query AND metadata @> %(where)s
    ORDER BY score DESC, id LIMIT %(n)s
), ranks AS (
    SELECT id, row_number() OVER (ORDER BY distance, id) AS rank FROM near
    UNION ALL
    SELECT id, row_number() OVER (ORDER BY score DESC, id) FROM alike
), fused AS (
    SELECT id, sum(1.0 / (60 + rank)) AS score FROM ranks
    GROUP BY id ORDER BY score DESC, id LIMIT %(n)s
)
SELECT id, text, metadata, stored FROM fused JOIN passages USING (id) ORDER BY score DESC, id
