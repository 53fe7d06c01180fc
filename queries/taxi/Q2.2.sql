select
    cast(tpep_pickup_datetime as date) as day,
    sum(trip_distance) * 3600.0
        / sum(extract(epoch from tpep_dropoff_datetime) - extract(epoch from tpep_pickup_datetime))
        as miles_per_hour
from trips
where fare_amount >= 80.0
group by cast(tpep_pickup_datetime as date)
order by day;
