select count(*) from hits;
