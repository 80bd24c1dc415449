mod load;
mod time;
