import { configure } from "@testing-library/react";

/** Lazy-loaded code takes longer than the default second on a busy machine. */
configure({ asyncUtilTimeout: 10_000 });
