import { configure } from "@testing-library/react";

/** Text areas that grow measure themselves when fonts are loaded; happy-dom has no fonts. */
Object.defineProperty(document, "fonts", { value: new EventTarget(), configurable: true });

/** Lazy-loaded code takes longer than the default second on a busy machine. */
configure({ asyncUtilTimeout: 10_000 });
