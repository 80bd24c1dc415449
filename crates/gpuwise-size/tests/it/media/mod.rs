mod fit;
mod load;
mod plan;
mod time;
