select "UserID", extract(minute from "EventTime") as m, "SearchPhrase", count(*)
from hits
group by "UserID", m, "SearchPhrase"
order by count(*) desc
limit 10;
