select "UserID", count(*)
from hits
group by "UserID"
order by count(*) desc
limit 10;
