/** What the tests of a file know about their server. */

/** `cookie` is set by the first login and shared by the tests of a file, because password hashing is slow. */
export type Person = { email: string; password: string; cookie?: string };

export type World = {
  /** URL of the dashboard for browsers. */
  base: string;
  /** URL of the server for programs, which cannot resolve the dashboard's host. */
  server: string;
  org: string;
  token: string;
  /** Directory with repositories that the server may read. */
  places: string;
  ada: Person;
  /** Members if the file lists them in its parts: `test.use({ parts: ["grace"] })`. */
  grace: Person;
  linus: Person;
  vera: Person;
};
