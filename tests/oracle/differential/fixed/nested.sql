-- Lists and structs, as far as both engines have them: making, reading, unnesting, aggregates of them.

SELECT [1, 2, 3], [1, NULL], ['a', 'ä', ''], [[1], [2, 3]];
SELECT CAST([1, NULL, 3] AS VARCHAR), CAST([[1], NULL] AS VARCHAR), CAST(['a', NULL] AS VARCHAR);
SELECT [1, 2, 3][1], [1, 2, 3][3], [1, 2, 3][4], ['a', 'b'][2];
SELECT array_length([1, 2, 3]), array_length([1, NULL], 1), array_length(['a', 'b']);
SELECT [1, 2, 3, 4][2:3], [1, 2, 3, 4][-1], [1, 2, 3, 4][3:9];
SELECT list_contains([1, 2, 3], 2), list_contains([1, 2], 5), array_has([1, NULL], 1);
SELECT array_position([1, 2, 3, 2], 2), list_position(['a', 'b'], 'b');
SELECT list_concat([1, 2], [3]), array_cat([1], [NULL, 2]), [1] || [2];
SELECT list_append([1], 2), array_append([1, 2], NULL), list_prepend(0, [1]), array_prepend('a', ['b']);
SELECT list_distinct([1, 1, 1]), array_distinct(['x']);
SELECT list_sort([3, 1, 2]), array_sort([3, NULL, 1], 'DESC', 'NULLS LAST');
SELECT list_reverse([1, 2, 3]), array_reverse(['a', NULL, 'b']);
SELECT array_to_string(['a', 'b', 'c'], '-'), array_to_string([1, 2, 3], ', ');
SELECT string_to_array('a,b,,c', ','), string_to_array('abc', 'x');
SELECT id, string_to_array(t, ' ') FROM texts WHERE t <> '';
SELECT id, string_to_array(t, ';')[1], string_to_array(t, ';')[2] FROM texts WHERE t <> '';
SELECT list_slice([1, 2, 3, 4, 5], 2, 4), array_slice([1, 2, 3], 1, 2);
SELECT list_has_any([1, 2], [2, 9]), list_has_all([1, 2, 3], [1, 3]);
SELECT flatten([[1, 2], [3], []]), array_resize([1, 2], 3), list_resize([1, 2, 3], 2);
-- duckdb: SELECT list_max([1, 5, 3]), list_min([4, NULL, 2]);
SELECT array_max([1, 5, 3]), array_min([4, NULL, 2]);
SELECT generate_series(1, 5), range(0, 10, 3), generate_series(5, 1, -2), range(3);
SELECT [1, 2] = [1, 2], [1, 2] < [1, 3], [1] = [2], [1, 2] <> [1];
SELECT [k, id] FROM a;
SELECT id, [k, id][1] IS NULL, list_contains([k, id], 3) FROM a WHERE k IS NOT NULL;
SELECT NULL = [1], [NULL] IS NULL, CAST(NULL AS INTEGER[]) IS NULL;
SELECT 2 = ANY([1, 2, 3]), 5 = ANY([1, 2, 3]), 2 <> ALL([1, 3]);

-- UNNEST.
SELECT unnest([1, 2, 3]);
SELECT unnest([1, NULL, 3]) AS v;
SELECT v FROM unnest([1, 2, 3]) AS u(v);
SELECT v + 1 FROM unnest([1, 2, 3]) AS u(v) WHERE v > 1;
SELECT sum(v), count(*) FROM unnest([1, 2, NULL, 4]) AS u(v);
SELECT id, unnest([k, id]) AS v FROM a;
SELECT id, unnest(string_to_array(t, ';')) AS part FROM texts WHERE t LIKE '%;%';
SELECT s.id, count(*) FROM (SELECT id, unnest(string_to_array(t, ' ')) AS word FROM texts WHERE t <> '') AS s GROUP BY s.id;
SELECT id, v FROM a CROSS JOIN unnest([1, 2]) AS u(v);
SELECT unnest([1, 2]), unnest(['a', 'b']);
SELECT unnest([[1, 2], [3]]);
SELECT unnest(generate_series(1, 4)) AS v;
SELECT s.t, unnest(s.ids) AS id FROM (SELECT t, array_agg(id ORDER BY id) AS ids FROM a GROUP BY t) AS s;
SELECT v, v * v FROM (SELECT unnest(range(1, 6)) AS v) AS s ORDER BY v DESC;

-- Aggregated.
SELECT array_agg(k ORDER BY id)[1], array_length(array_agg(k)) FROM a;
SELECT t, array_agg(DISTINCT k ORDER BY k) AS ks FROM a GROUP BY t ORDER BY t;
SELECT array_to_string(array_agg(CAST(id AS VARCHAR) ORDER BY id), ',') FROM a;
SELECT list_sort(array_agg(k)) FROM a WHERE k IS NOT NULL;
SELECT array_agg(id ORDER BY id)[2:4] FROM a;
SELECT s.ids, count(*) FROM (SELECT t, array_agg(id ORDER BY id) AS ids FROM a GROUP BY t) AS s GROUP BY s.ids;
SELECT day, array_length(array_agg(id)) AS n FROM a GROUP BY day HAVING list_contains(array_agg(id), 2);

-- Structs.
SELECT {'a': 1, 'b': 'x'};
SELECT {'a': 1, 'b': 'x'}['b'], {'a': 5}['a'] + 1;
SELECT s.v.a + 1, s.v.b FROM (SELECT {'a': k, 'b': t} AS v FROM a) AS s;
SELECT s.v['k'] FROM (SELECT {'k': k} AS v FROM a) AS s;
SELECT s.v, count(*) FROM (SELECT {'k': k % 2} AS v FROM a) AS s GROUP BY s.v;
SELECT array_agg({'id': id, 'k': k} ORDER BY id) FROM a WHERE id < 4;
SELECT map(['a', 'b'], [1, 2])['a'] IS NULL;

-- What Pelton once had wrong, or refused.
SELECT [1, 2, 3, 4][2:];
SELECT ({'a': 5}).a;
SELECT id, v FROM a, unnest([k, id]) AS u(v);
SELECT id, v FROM a, LATERAL unnest([k, id]) AS u(v);
SELECT DISTINCT k FROM (SELECT k, unnest([1, 2]) AS i FROM a GROUP BY k) AS s;
SELECT k, i FROM (SELECT k, unnest([2, 1]) AS i FROM a GROUP BY k) AS s ORDER BY k, i;
SELECT k, sum(n) FROM (SELECT k, n, unnest([2, 1]) AS i FROM (SELECT k, count(*) AS n FROM a GROUP BY k) AS c) AS s GROUP BY k, n, i;
SELECT k, sum(n) FROM (SELECT k, n, unnest([2, 1]) AS i FROM (SELECT k, count(*) AS n FROM a GROUP BY k) AS c) AS s GROUP BY k;
SELECT b.id FROM b JOIN (SELECT k, unnest([1, 2]) AS i FROM a GROUP BY k) AS s ON b.k = s.k;

-- Any value of a list, and NULL in it or beside it.
SELECT id, k = ANY(ARRAY[1, id]), k = ANY(ARRAY[1, CASE WHEN id > 9 THEN id END]) FROM a;
SELECT id, k < ANY(ARRAY[1, CASE WHEN id > 9 THEN id END]), k >= ANY(ARRAY[CASE WHEN id > 9 THEN id END]) FROM a;
SELECT id FROM a WHERE NOT k = ANY(ARRAY[1, CASE WHEN id > 9 THEN id END]);
SELECT 2 = ANY(ARRAY[1, NULL]), 1 = ANY(ARRAY[1, NULL]), 2 > ANY(ARRAY[NULL, 1]), 0 > ANY(ARRAY[NULL, 1]);
