// Package house has no code: its tests hold the whole module to the house rules, whichever package breaks them. Who may
// import whom, what every package and document must have, which rules of the contract have a test, and that what the
// README shows is what happens.
package house
