/** What the tests of a file know about the server they talk to. */

/** `cookie` is set by the first login, which all tests of a file share: checking a password takes long. */
export type Person = { email: string; password: string; cookie?: string };

export type World = {
  /** Where the browser opens the dashboard. */
  base: string;
  /** Where programs reach the server: only browsers know the host of the dashboard. */
  server: string;
  org: string;
  token: string;
  /** A directory whose repositories the server may read. */
  places: string;
  ada: Person;
  /** These are members when the file asks for them: `test.use({ parts: ["grace"] })`. */
  grace: Person;
  linus: Person;
  vera: Person;
};
