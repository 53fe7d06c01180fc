-- Dates, times and intervals: parts, truncation, arithmetic, comparison, formatting, zones.

-- Parts.
SELECT id, extract(year FROM day), extract(month FROM day), extract(day FROM day) FROM moments;
SELECT id, extract(quarter FROM day), extract(week FROM day), extract(doy FROM day), extract(dow FROM day), extract(isodow FROM day) FROM moments;
SELECT id, extract(isoyear FROM day) FROM moments;
SELECT id, extract(year FROM moment), extract(hour FROM moment), extract(minute FROM moment) FROM moments;
-- duckdb: SELECT id, extract(second FROM moment), extract(millisecond FROM moment), extract(microsecond FROM moment) FROM moments;
SELECT id, extract(second FROM moment), extract(millisecond FROM moment), extract(microsecond FROM moment) FROM moments;
SELECT id, extract(epoch FROM day), extract(epoch FROM moment) FROM moments;
SELECT id, date_part('year', day), date_part('month', moment), date_part('dow', moment), date_part('doy', moment) FROM moments;
SELECT id, extract(year FROM zoned), extract(hour FROM zoned), extract(dow FROM zoned) FROM moments;
-- duckdb: SELECT id, year(day), month(day), day(day) FROM moments;
SELECT id, date_part('year', day), date_part('month', day), date_part('day', day) FROM moments;
SELECT extract(year FROM DATE '2024-02-29'), extract(day FROM TIMESTAMP '2024-02-29 23:59:59'), extract(hour FROM TIMESTAMP '2024-02-29 23:59:59');
SELECT extract(year FROM ordered) AS year, count(*) FROM orders GROUP BY year;
SELECT extract(dow FROM ordered) AS dow, count(*), avg(quantity) FROM orders GROUP BY 1 ORDER BY 1;
SELECT extract(hour FROM shipped) AS hour, count(*) FROM orders GROUP BY hour HAVING count(*) > 80;
SELECT count(*) FROM orders WHERE extract(month FROM ordered) = 12 AND extract(day FROM ordered) BETWEEN 24 AND 26;
SELECT extract(week FROM ordered) AS week, min(ordered), max(ordered) FROM orders WHERE ordered < DATE '2023-02-01' GROUP BY week;

-- Truncation.
SELECT id, date_trunc('year', day), date_trunc('quarter', day), date_trunc('month', day), date_trunc('week', day) FROM moments;
SELECT id, date_trunc('year', moment), date_trunc('month', moment), date_trunc('day', moment), date_trunc('hour', moment) FROM moments;
SELECT id, date_trunc('minute', moment), date_trunc('second', moment), date_trunc('week', moment), date_trunc('quarter', moment) FROM moments;
SELECT id, date_trunc('millisecond', moment), date_trunc('microsecond', moment) FROM moments;
SELECT id, date_trunc('day', zoned), date_trunc('hour', zoned) FROM moments;
SELECT date_trunc('month', ordered) AS month, count(*), sum(price) FROM orders GROUP BY month ORDER BY month;
SELECT date_trunc('week', ordered) AS week, count(DISTINCT customer) FROM orders GROUP BY week;
SELECT date_trunc('day', moment) AS day, count(*), avg(value) FROM events GROUP BY day;
SELECT date_trunc('hour', moment) AS hour, sensor, max(value) FROM events GROUP BY hour, sensor;
SELECT id FROM moments WHERE date_trunc('month', moment) = TIMESTAMP '2024-02-01 00:00:00';
SELECT id FROM moments WHERE date_trunc('year', day) = DATE '2020-01-01';
SELECT count(*) FROM orders WHERE date_trunc('month', ordered) > DATE '2023-06-15';
SELECT count(*) FROM orders WHERE date_trunc('month', shipped) <= TIMESTAMP '2023-06-01 00:00:00';
SELECT date_trunc('month', DATE '2024-02-29'), date_trunc('year', TIMESTAMP '2024-02-29 12:00:00');

-- Arithmetic of days.
SELECT id, day + 1, day - 1, day + 400 FROM moments;
SELECT id, day - DATE '2000-01-01', DATE '2000-01-01' - day FROM moments;
SELECT a.id, b.id, a.day - b.day FROM a JOIN b ON a.k = b.k;
SELECT id, day + INTERVAL '1 day', day - INTERVAL '1 day', day + INTERVAL '1 month', day - INTERVAL '1 month' FROM moments;
SELECT id, day + INTERVAL '1 year', day - INTERVAL '4 years', day + INTERVAL '13 months', day + INTERVAL '1 month 1 day' FROM moments;
SELECT id, day + INTERVAL '1' MONTH, day - INTERVAL '2' YEAR, day + INTERVAL '10' DAY FROM moments;
SELECT id, day + INTERVAL '1 week', day + INTERVAL '3 weeks' - INTERVAL '1 month' FROM moments;
SELECT id, CAST(day AS TIMESTAMP) + INTERVAL '5 hours', CAST(day AS TIMESTAMP) - INTERVAL '90 minutes' FROM moments WHERE id < 23;
SELECT DATE '2024-01-31' + INTERVAL '1 month', DATE '2023-01-31' + INTERVAL '1 month', DATE '2024-03-31' - INTERVAL '1 month';
SELECT DATE '2024-02-29' + INTERVAL '1 year', DATE '2024-02-29' - INTERVAL '1 year', DATE '2024-02-29' + INTERVAL '4 years';
SELECT DATE '2024-03-01' - DATE '2024-02-01', DATE '2023-03-01' - 1, 5 + DATE '2024-01-01';
SELECT id, day + k FROM a;
SELECT max(day) - min(day), max(ordered) - min(ordered) FROM a, orders;
SELECT o.id FROM orders AS o WHERE o.ordered > DATE '2024-03-31' - INTERVAL '3 days';
SELECT count(*) FROM orders WHERE ordered BETWEEN DATE '2023-01-01' AND DATE '2023-01-01' + INTERVAL '1 month' - INTERVAL '1 day';
SELECT count(*) FROM orders WHERE shipped - CAST(ordered AS TIMESTAMP) > INTERVAL '9 days 12 hours';
SELECT count(*) FROM orders WHERE CAST(shipped AS DATE) - ordered >= 9;
SELECT CAST(shipped AS DATE) - ordered AS days, count(*) FROM orders GROUP BY days ORDER BY days;
SELECT c.id, extract(year FROM DATE '2024-06-30') - extract(year FROM c.born) AS age FROM customers AS c;

-- Arithmetic of timestamps.
SELECT id, moment + INTERVAL '1 hour', moment - INTERVAL '1 hour 30 minutes', moment + INTERVAL '1 second' FROM moments;
SELECT id, moment + INTERVAL '1 month', moment - INTERVAL '1 year', moment + INTERVAL '1 day 1 hour' FROM moments;
SELECT id, moment - TIMESTAMP '2000-01-01 00:00:00' FROM moments;
SELECT e.seq, e.moment - f.moment FROM events AS e JOIN events AS f ON e.seq = f.seq + 5 WHERE e.seq < 60;
SELECT sensor, max(moment) - min(moment) FROM events GROUP BY sensor;
SELECT id, moment - moment, moment - CAST(day AS TIMESTAMP) FROM moments WHERE id < 23;
SELECT TIMESTAMP '2024-03-01 00:00:00' - INTERVAL '1 second', TIMESTAMP '2024-02-28 23:59:59.5' + INTERVAL '0.5 seconds';
SELECT id, zoned + INTERVAL '1 hour', zoned - INTERVAL '1 month' FROM moments;
SELECT id, extract(epoch FROM moment) - extract(epoch FROM TIMESTAMP '2000-01-01 00:00:00') FROM moments;
SELECT count(*) FROM events WHERE moment < TIMESTAMP '2024-02-29 00:00:00' + INTERVAL '6 hours';
SELECT seq FROM events WHERE moment >= TIMESTAMP '2024-03-01 00:00:00' AND moment < TIMESTAMP '2024-03-01 03:00:00';

-- Intervals.
SELECT INTERVAL '1 day' + INTERVAL '2 hours', INTERVAL '1 month' - INTERVAL '1 day', -INTERVAL '1 day', INTERVAL '1 year 2 months';
SELECT INTERVAL '1 day' = INTERVAL '24 hours', INTERVAL '1 month' > INTERVAL '29 days', INTERVAL '90 minutes' < INTERVAL '2 hours';
SELECT extract(day FROM INTERVAL '3 days 4 hours'), extract(hour FROM INTERVAL '3 days 4 hours'), extract(month FROM INTERVAL '1 year 5 months');
SELECT seq FROM events AS e WHERE moment - (SELECT min(moment) FROM events) > INTERVAL '5 days';
SELECT s.gap, count(*) FROM (SELECT moment - lag(moment) OVER (ORDER BY seq) AS gap FROM events) AS s GROUP BY s.gap;
SELECT max(s.gap), min(s.gap) FROM (SELECT moment - lag(moment) OVER (ORDER BY seq) AS gap FROM events) AS s;
SELECT DISTINCT v.i FROM (VALUES (INTERVAL '1 day'), (INTERVAL '24 hours'), (INTERVAL '2 days')) AS v(i);
SELECT count(*) FROM (VALUES (INTERVAL '1 day'), (INTERVAL '24 hours'), (INTERVAL '2 days'), (NULL)) AS v(i) GROUP BY v.i;
SELECT INTERVAL '1 day' UNION SELECT INTERVAL '24 hours';
SELECT nullif(INTERVAL '1 day', INTERVAL '24 hours');
SELECT count(DISTINCT v.i) FROM (VALUES (INTERVAL '1 day'), (INTERVAL '24 hours'), (INTERVAL '2 days')) AS v(i);

-- Comparison and order.
SELECT id FROM moments WHERE day < moment;
SELECT id FROM moments WHERE day = moment;
SELECT id FROM moments WHERE day >= TIMESTAMP '2000-01-01 00:00:01';
SELECT id FROM moments WHERE moment > DATE '2020-01-01';
SELECT id FROM moments WHERE moment = zoned;
SELECT id FROM moments WHERE zoned < TIMESTAMP WITH TIME ZONE '2000-01-01 00:00:00+00:00';
SELECT id FROM moments WHERE day = '2024-02-29' OR day > '2038-01-01';
SELECT id FROM moments WHERE moment >= '2024-02-28' AND moment < '2024-03-01 00:00:00';
SELECT id FROM moments WHERE moment BETWEEN '1969-01-01' AND '1970-12-31';
SELECT id FROM moments WHERE day IN ('2020-01-01', '2020-02-29');
SELECT id FROM moments ORDER BY day DESC;
SELECT id FROM moments ORDER BY zoned, id;
SELECT id FROM moments ORDER BY extract(month FROM day), extract(day FROM day), id;
SELECT greatest(day, DATE '2000-01-01'), least(moment, TIMESTAMP '2000-01-01 00:00:00') FROM moments;
SELECT day, count(*) FROM moments GROUP BY day HAVING day > DATE '2020-06-01';
SELECT DATE '2024-02-29' = TIMESTAMP '2024-02-29 00:00:00', DATE '2024-02-29' < '2024-03-01', TIMESTAMP '2024-02-29 12:00:00' > '2024-02-29';

-- Casts and text.
SELECT id, CAST(moment AS DATE), CAST(day AS TIMESTAMP), moment::DATE - day FROM moments WHERE id < 23;
SELECT id, CAST(day AS VARCHAR), 'on ' || day FROM moments;
SELECT id, CAST(CAST(day AS VARCHAR) AS DATE) = day FROM moments;
SELECT CAST('2024-02-29' AS DATE), CAST('2024-02-29 12:34:56' AS TIMESTAMP), CAST('2024-02-29T12:34:56.789' AS TIMESTAMP), CAST('2024-02-29' AS TIMESTAMP);
SELECT CAST('12:34:56' AS TIME), TIME '23:59:59.999999', CAST(TIMESTAMP '2024-02-29 12:34:56' AS TIME);
SELECT id, CAST(moment AS TIME) FROM moments;
SELECT id, CAST(zoned AS TIMESTAMP), CAST(zoned AS DATE) FROM moments;
SELECT TIME '12:00:00' < TIME '12:00:01', TIME '01:00:00' + INTERVAL '2 hours';
-- duckdb: SELECT id, strftime(moment, '%Y-%m-%d %H:%M:%S'), strftime(day, '%d/%m/%Y') FROM moments;
SELECT id, to_char(moment, '%Y-%m-%d %H:%M:%S'), to_char(day, '%d/%m/%Y') FROM moments;
-- duckdb: SELECT id, strftime(day, '%j %A %B %a %b %y') FROM moments;
SELECT id, to_char(day, '%j %A %B %a %b %y') FROM moments;
-- duckdb: SELECT strptime('29.02.2024 12:30', '%d.%m.%Y %H:%M');
SELECT to_timestamp('29.02.2024 12:30', '%d.%m.%Y %H:%M');
-- duckdb: SELECT CAST(strptime('29/02/2024', '%d/%m/%Y') AS DATE);
SELECT to_date('29/02/2024', '%d/%m/%Y');
SELECT make_date(2024, 2, 29), make_date(extract(year FROM DATE '2023-05-06')::INTEGER, 1, 1);
SELECT id, make_date(1999, 12, id) FROM a;
SELECT a.id, CAST(a.day AS VARCHAR) || ' ' || coalesce(a.t, '-') FROM a;
-- duckdb: SELECT to_timestamp(0) AT TIME ZONE 'UTC', to_timestamp(1709164800) AT TIME ZONE 'UTC';
SELECT to_timestamp(0), to_timestamp(1709164800);

-- Zones.
SELECT id, zoned AT TIME ZONE 'UTC' FROM moments;
SELECT id, zoned AT TIME ZONE 'Europe/Berlin' FROM moments WHERE id < 10;
SELECT TIMESTAMP WITH TIME ZONE '2024-07-01 12:00:00+02:00' AT TIME ZONE 'America/New_York';
SELECT TIMESTAMP '2024-07-01 12:00:00' AT TIME ZONE 'Asia/Tokyo' = TIMESTAMP WITH TIME ZONE '2024-07-01 03:00:00+00:00';
SELECT TIMESTAMP '2024-10-27 02:30:00' AT TIME ZONE 'Europe/Berlin' = TIMESTAMP WITH TIME ZONE '2024-10-27 01:30:00+00:00';
SELECT TIMESTAMP '2024-03-31 02:30:00' AT TIME ZONE 'Europe/Berlin' = TIMESTAMP WITH TIME ZONE '2024-03-31 01:30:00+00:00';
SELECT INTERVAL '02:00:00', INTERVAL '1 day 02:30:00', CAST('3 days 04:05:06' AS INTERVAL);
SELECT TIMESTAMP WITH TIME ZONE '2024-02-29 12:00:00+02:00' = TIMESTAMP WITH TIME ZONE '2024-02-29 10:00:00+00:00';
SELECT CAST('2024-02-29 12:00:00+02' AS TIMESTAMP WITH TIME ZONE) - TIMESTAMP WITH TIME ZONE '2024-02-29 00:00:00+00:00';
SELECT min(zoned), max(zoned), count(DISTINCT zoned) FROM moments;
SELECT m.id, n.id FROM moments AS m JOIN moments AS n ON m.zoned = n.zoned;

-- Bins.
-- duckdb: SELECT time_bucket(INTERVAL '15 minutes', moment, TIMESTAMP '2000-01-01 00:00:00') AS bin, count(*) FROM events GROUP BY bin HAVING count(*) > 1;
SELECT date_bin(INTERVAL '15 minutes', moment, TIMESTAMP '2000-01-01 00:00:00') AS bin, count(*) FROM events GROUP BY bin HAVING count(*) > 1;
-- duckdb: SELECT time_bucket(INTERVAL '2 days', moment, TIMESTAMP '2024-02-01 00:00:00') AS bin, min(value) FROM events GROUP BY bin;
SELECT date_bin(INTERVAL '2 days', moment, TIMESTAMP '2024-02-01 00:00:00') AS bin, min(value) FROM events GROUP BY bin;

-- More of parts, intervals and comparisons.
SELECT id FROM a WHERE day = TIMESTAMP '2024-02-29 00:00:00';
SELECT id FROM a WHERE day < TIMESTAMP '2024-02-29 00:00:01';
SELECT id FROM a WHERE day <= TIMESTAMP '2024-02-28 23:59:59';
SELECT id FROM a WHERE day IN (TIMESTAMP '2024-02-29 00:00:00', TIMESTAMP '2024-01-31 12:00:00');
SELECT id FROM a WHERE day BETWEEN TIMESTAMP '2024-01-31 00:00:01' AND TIMESTAMP '2024-03-01 12:00:00';
SELECT id FROM a WHERE CAST(day AS TIMESTAMP) = '2024-02-29';
SELECT id FROM moments WHERE moment = '2024-02-29 06:00:00.000001';
SELECT id FROM moments WHERE CAST(moment AS DATE) = DATE '2024-02-29';
SELECT id FROM moments WHERE CAST(moment AS DATE) IN ('2024-02-29', '2020-02-29');
SELECT id FROM moments WHERE CAST(moment AS DATE) > '2024-02-28';
SELECT id FROM moments WHERE date_trunc('day', moment) > TIMESTAMP '2024-02-28 12:00:00';
SELECT id FROM moments WHERE date_trunc('month', moment) < TIMESTAMP '2000-02-15 00:00:00';
SELECT id FROM moments WHERE date_trunc('year', day) <> DATE '2020-01-01';
SELECT id FROM moments WHERE extract(year FROM day) = 2020;
SELECT id FROM moments WHERE extract(year FROM day) IN (2020, 2024);
SELECT id FROM moments WHERE extract(year FROM moment) BETWEEN 1970 AND 2000;
SELECT id FROM moments WHERE extract(year FROM day) <> 2020 AND extract(year FROM day) > 1999.5;
SELECT id FROM moments WHERE NOT extract(year FROM day) = 2020;
SELECT count(*) FROM orders WHERE shipped - INTERVAL '3 days' > TIMESTAMP '2024-03-30 00:00:00';
SELECT date_trunc('month', TIMESTAMP '2024-02-29 12:00:00') + INTERVAL '1 month' - INTERVAL '1 day';
SELECT id, date_trunc('quarter', zoned), date_trunc('week', zoned) FROM moments;
SELECT id, extract(epoch FROM zoned) FROM moments;
SELECT extract(epoch FROM INTERVAL '1 day 2 hours'), extract(minute FROM INTERVAL '90 minutes');
SELECT extract(epoch FROM TIMESTAMP '2024-02-29 12:00:00' - TIMESTAMP '2024-02-28 00:00:00');
SELECT avg(moment - TIMESTAMP '2024-02-28 22:00:00') FROM events;
SELECT TIMESTAMP '2024-02-29 12:00:00' - DATE '2024-02-28';
SELECT DATE '2024-02-29' - TIMESTAMP '2024-02-28 12:00:00';
SELECT DATE '2024-02-29' + TIME '12:30:00';
SELECT TIME '12:30:00' + INTERVAL '45 minutes', TIME '23:30:00' + INTERVAL '45 minutes';
SELECT extract(hour FROM TIME '12:30:45'), extract(minute FROM TIME '12:30:45'), extract(second FROM TIME '12:30:45');
SELECT CAST('2024-2-9' AS DATE);
SELECT CAST('2024-02-29 12:34:56' AS DATE);
SELECT CAST('2024-02-29' AS TIMESTAMP) = DATE '2024-02-29';
SELECT CAST(TIME '12:30:00' AS VARCHAR);
SELECT CAST('1 day' AS INTERVAL), CAST('2 hours 30 minutes' AS INTERVAL);
SELECT INTERVAL 3 DAY, INTERVAL 2 HOUR;
SELECT INTERVAL '1.5 hours', INTERVAL '1.5 days';
SELECT CAST(DATE '2024-02-29' AS TIMESTAMP) + INTERVAL '36 hours' = TIMESTAMP '2024-03-01 12:00:00';
SELECT TIMESTAMP '2024-03-31 10:00:00' + INTERVAL '1 month', TIMESTAMP '2024-03-31 10:00:00' - INTERVAL '1 month 1 day';
SELECT DATE '1900-02-28' + 1, DATE '2000-02-28' + 1, DATE '2100-02-28' + 1;
SELECT DATE '0001-01-01' - 1;
SELECT extract(year FROM DATE '0001-01-01'), extract(dow FROM DATE '0001-01-01'), extract(doy FROM DATE '1600-12-31');
SELECT extract(week FROM DATE '2016-01-01'), extract(isoyear FROM DATE '2016-01-01'), extract(isodow FROM DATE '2016-01-03');
SELECT date_part('week', DATE '2005-01-02'), date_part('isoyear', DATE '2005-01-02'), date_part('quarter', DATE '2005-12-31');
SELECT date_trunc('hour', TIMESTAMP '1969-12-31 23:59:59.5'), date_trunc('second', TIMESTAMP '1969-12-31 23:59:59.5'),
date_trunc('year', TIMESTAMP '1900-03-01 00:00:00');
SELECT CAST(TIMESTAMP '1969-12-31 23:59:59.5' AS DATE), CAST(TIMESTAMP '1969-12-31 00:00:00' AS DATE), CAST(TIMESTAMP '1900-03-01 12:00:00' AS DATE);
SELECT TIMESTAMP WITH TIME ZONE '2024-02-29 23:30:00-02:00' AT TIME ZONE 'UTC';
SELECT CAST(TIMESTAMP WITH TIME ZONE '2024-02-29 23:30:00-02:00' AS DATE), extract(hour FROM TIMESTAMP WITH TIME ZONE '2024-02-29 23:30:00-02:00');
SELECT CAST(TIMESTAMP '2024-02-29 12:00:00' AS TIMESTAMP WITH TIME ZONE) = TIMESTAMP WITH TIME ZONE '2024-02-29 12:00:00+00';
SELECT id FROM moments WHERE zoned > '2024-01-01 00:00:00+00:00';
SELECT id FROM moments WHERE zoned >= DATE '2020-01-01';
SELECT id FROM moments WHERE CAST(zoned AS DATE) = day + 1;
SELECT count(DISTINCT CAST(moment AS TIME)) FROM moments;
SELECT CAST(moment AS TIME) AS clock, count(*) FROM moments GROUP BY clock ORDER BY clock;
SELECT day, lag(day) OVER (ORDER BY day), day - lag(day) OVER (ORDER BY day) FROM moments;
SELECT greatest(DATE '2024-01-01', TIMESTAMP '2024-01-01 00:00:01'), coalesce(NULL, DATE '2024-01-01', TIMESTAMP '2024-01-01 12:00:00');
SELECT CASE WHEN id > 3 THEN day ELSE TIMESTAMP '2024-01-01 12:00:00' END FROM a;
SELECT day FROM a UNION SELECT CAST('2024-05-05 10:00:00' AS TIMESTAMP);
SELECT day = CAST(day AS TIMESTAMP), day < CAST(day AS TIMESTAMP) + INTERVAL '1 second' FROM a;
SELECT DATE '2024-02-29' IN (TIMESTAMP '2024-02-29 00:00:00'), DATE '2024-02-29' BETWEEN TIMESTAMP '2024-02-28 12:00:00' AND '2024-03-01';
SELECT avg(extract(year FROM day)), sum(extract(month FROM day)) FROM moments;
SELECT extract(year FROM day) % 4 = 0, extract(year FROM day) / 100.0 FROM moments;
SELECT extract(year FROM day) || '-' || extract(month FROM day) FROM moments;
SELECT lpad(CAST(extract(month FROM day) AS VARCHAR), 2, '0') FROM moments;
SELECT substr(CAST(day AS VARCHAR), 1, 7), count(*) FROM moments GROUP BY 1;
SELECT CAST(substr(CAST(day AS VARCHAR), 1, 4) AS INTEGER) = extract(year FROM day) FROM moments;
SELECT DATE '2024-02-29' = DATE '2024-2-29';
SELECT '2024-02-29' < DATE '2024-03-01', '2024-02-29' = TIMESTAMP '2024-02-29 00:00:00';
SELECT date '2024-02-29', timestamp '2024-02-29 00:00:00', "date" FROM (SELECT DATE '2020-01-01' AS "date") AS s;
SELECT max(ordered) - 30 FROM orders;
SELECT ordered - INTERVAL '1 year' AS y, count(*) FROM orders GROUP BY y HAVING count(*) > 11;
SELECT count(*) FROM orders WHERE ordered >= date_trunc('quarter', DATE '2023-05-05') AND ordered < date_trunc('quarter', DATE '2023-05-05') + INTERVAL '3 months';
SELECT count(*) FROM orders WHERE extract(dow FROM ordered) IN (0, 6) AND date_part('hour', shipped) < 6;
SELECT date_trunc('month', shipped) AS m, count(*), count(DISTINCT CAST(shipped AS DATE)) FROM orders GROUP BY m;
SELECT date_trunc('month', ordered) - INTERVAL '1 day' AS m, count(*) FROM orders GROUP BY m;
SELECT unnest(generate_series(TIMESTAMP '2024-01-01 00:00:00', TIMESTAMP '2024-01-02 00:00:00', INTERVAL '12 hours'));
SELECT DATE '2024-01-01' + CAST(v AS INTEGER) FROM generate_series(1, 3) AS g(v);
SELECT v.i FROM (VALUES (INTERVAL '2 days'), (INTERVAL '25 hours'), (INTERVAL '1 month'), (INTERVAL '31 days'), (NULL)) AS v(i) ORDER BY v.i;
SELECT count(*) FROM (VALUES (INTERVAL '1 day'), (INTERVAL '36 hours')) AS v(i) JOIN (VALUES (INTERVAL '24 hours'), (INTERVAL '1 day 12 hours')) AS w(i) ON v.i = w.i;
SELECT INTERVAL '1 day' IN (INTERVAL '24 hours', INTERVAL '2 days'), INTERVAL '1 day' BETWEEN INTERVAL '23 hours' AND INTERVAL '25 hours';

-- What Pelton once had wrong, or refused.
SELECT extract(hour FROM TIMESTAMP '2024-02-29 12:00:00' - TIMESTAMP '2024-02-20 00:00:00');
SELECT DATE '2024-03-30' + INTERVAL '1 month' + INTERVAL '1 day', DATE '2024-03-30' + (INTERVAL '1 month' + INTERVAL '1 day');
SELECT id, extract(century FROM day), extract(decade FROM day) FROM moments;
SELECT INTERVAL '2 hours' * 3, 2 * INTERVAL '1 day', INTERVAL '1 hour' / 2;
SELECT DATE '2024-01-01' + INTERVAL '1 day' * v FROM generate_series(1, 3) AS g(v);
SELECT make_timestamp(2024, 2, 29, 12, 30, 0);
SELECT CAST('2024-02-29 12:34' AS TIMESTAMP);
SELECT CAST(' 2024-02-29' AS DATE);
SELECT year(day), month(day), day(day), dayname(day), monthname(day), last_day(day) FROM moments;
SELECT date_diff('day', DATE '2024-01-01', DATE '2024-03-01');
SELECT struct_extract({'a': 1, 'b': NULL}, 'a');

-- A date minus a date is a number of days.
SELECT id FROM a WHERE day - DATE '2024-02-28' = k;
SELECT id FROM a WHERE coalesce(k, 5) BETWEEN day - day AND 3;
SELECT a.id, b.id FROM a JOIN b ON a.k = b.day - DATE '2024-02-28';

-- Seconds of intervals with years and months.
SELECT extract(epoch FROM INTERVAL '1 year 2 days'), extract(epoch FROM INTERVAL '13 months'), extract(epoch FROM INTERVAL '-1 year');
