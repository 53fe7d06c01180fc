select *
from hits
where "URL" like '%google%'
order by "EventTime"
limit 10;
