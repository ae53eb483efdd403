import { configure } from "@testing-library/react";

/** A machine that runs other suites as well takes longer than a second for what is loaded on demand. */
configure({ asyncUtilTimeout: 10_000 });
