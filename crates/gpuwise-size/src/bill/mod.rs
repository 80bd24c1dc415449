//! What a deployment costs over years: rented, owned, or both; growth and when to buy.
