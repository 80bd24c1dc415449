mod load;
mod plan;
mod time;
