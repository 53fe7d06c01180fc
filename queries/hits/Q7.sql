select "AdvEngineID", count(*)
from hits
where "AdvEngineID" <> 0
group by "AdvEngineID"
order by count(*) desc;
