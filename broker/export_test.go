package broker

// OpenAloud is openAloud.
var OpenAloud = openAloud
