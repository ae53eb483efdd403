import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { yaml } from "@codemirror/lang-yaml";
import { HighlightStyle, syntaxHighlighting } from "@codemirror/language";
import { Compartment, EditorState, type Extension, RangeSetBuilder } from "@codemirror/state";
import { Decoration, EditorView, keymap, lineNumbers, type ViewUpdate } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { useEffect, useRef, useState } from "react";
import type { components } from "@/api/schema.gen";
import styles from "../pipeline.module.css";

type Diagnostic = components["schemas"]["Diagnostic"];
type Props = { text: string; marks: Diagnostic[]; onChange?: (text: string) => void };

const diagnosticMarks = new Compartment();

const colours = syntaxHighlighting(
  HighlightStyle.define([
    { tag: tags.definition(tags.propertyName), color: "var(--berth-busy)" },
    { tag: tags.comment, color: "var(--berth-quiet)", fontStyle: "italic" },
    { tag: [tags.string, tags.content], color: "var(--mantine-color-text)" },
    { tag: [tags.punctuation, tags.separator], color: "var(--berth-quiet)" },
  ]),
);

const editorTheme = EditorView.theme({
  "&": { fontSize: "13px", maxHeight: "70vh", backgroundColor: "transparent" },
  "&.cm-focused": { outline: "2px solid var(--mantine-primary-color-filled)", outlineOffset: "-2px" },
  ".cm-scroller": {
    fontFamily: "var(--mantine-font-family-monospace)",
    lineHeight: "1.55",
    overflow: "auto",
  },
  ".cm-gutters": { backgroundColor: "transparent", color: "var(--berth-quiet)", border: "0" },
  ".cm-content": { caretColor: "var(--mantine-color-text)", color: "var(--mantine-color-text)" },
  ".cm-cursor": { borderLeftColor: "var(--mantine-color-text)" },
  ".cm-line.berth-error": { backgroundColor: "color-mix(in srgb, var(--berth-bad) 16%, transparent)" },
  ".cm-line.berth-warning": { backgroundColor: "color-mix(in srgb, var(--berth-warn) 16%, transparent)" },
});

/** YAML editor; lines with diagnostics are marked. Read-only without `onChange`. */
export function YamlEditor({ text, marks, onChange }: Props) {
  const container = useRef<HTMLDivElement>(null);
  const [view, setView] = useState<EditorView | null>(null);
  const changed = useRef(onChange);
  changed.current = onChange;
  const isReadOnly = onChange === undefined;

  useEffect(() => {
    if (!container.current) return;
    const extensions: Extension[] = [
      lineNumbers(),
      yaml(),
      editorTheme,
      colours,
      diagnosticMarks.of([]),
      EditorView.contentAttributes.of({ "aria-label": "Definition", tabindex: "0" }),
      isReadOnly ? [] : [history(), keymap.of([...defaultKeymap, ...historyKeymap])],
      EditorState.readOnly.of(isReadOnly),
      EditorView.editable.of(!isReadOnly),
      EditorView.updateListener.of((update: ViewUpdate) => {
        if (update.docChanged) changed.current?.(update.state.doc.toString());
      }),
    ];
    const made = new EditorView({
      parent: container.current,
      state: EditorState.create({ doc: text, extensions }),
    });
    setView(made);
    return () => made.destroy();
  }, [text, isReadOnly]);

  useEffect(() => {
    const decorations =
      marks.length > 0 ? EditorView.decorations.of(it => markDiagnostics(it.state, marks)) : [];
    view?.dispatch({ effects: diagnosticMarks.reconfigure(decorations) });
  }, [view, marks]);

  return <div ref={container} className={styles.editor} />;
}

function markDiagnostics(state: EditorState, marks: Diagnostic[]) {
  const severity = new Map<number, string>();
  for (const mark of marks) {
    if (severity.get(mark.line) !== "error") severity.set(mark.line, mark.severity);
  }
  const builder = new RangeSetBuilder<Decoration>();
  for (const [line, kind] of [...severity].sort(([a], [b]) => a - b)) {
    if (line < 1 || line > state.doc.lines) continue;
    const { from } = state.doc.line(line);
    builder.add(from, from, Decoration.line({ class: `berth-${kind}` }));
  }
  return builder.finish();
}
