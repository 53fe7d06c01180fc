select
    "VendorID",
    date_trunc('month', tpep_pickup_datetime) as month,
    count(*) as trips,
    avg(trip_distance) as distance,
    sum(total_amount) as total
from trips
where trip_distance >= 25.0
group by "VendorID", date_trunc('month', tpep_pickup_datetime)
order by "VendorID", month;
