import { fileURLToPath } from "node:url";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

const server = process.env.BERTH_URL ?? "http://127.0.0.1:8080";
// Keep the Host header: the server compares it with the Origin of every mutating request.
const proxy = Object.fromEntries(
  ["/api", "/docs"].map(path => [path, { target: server, changeOrigin: false }]),
);

export default defineConfig({
  plugins: [react()],
  resolve: { alias: { "@": fileURLToPath(new URL("./src", import.meta.url)) } },
  build: {
    manifest: true,
    // No inlined assets: the server's content security policy allows data: URLs only for images.
    assetsInlineLimit: 0,
    chunkSizeWarningLimit: 700,
    rolldownOptions: {
      output: {
        // Shared code goes into one file: many small files compress badly.
        codeSplitting: {
          groups: [
            {
              name: "vendor",
              test: /node_modules[\\/](react|react-dom|scheduler|@tanstack|openapi-fetch)[\\/]/,
            },
            {
              name: "shared",
              // Folders of ui/ are used by some pages only, and dialogs not at first.
              test: /src[\\/]((api|data|theme|format)[\\/].*|ui[\\/](?!ConfirmDialog|OneTimeSecretDialog|NewPasswordInput|CodeInput|DiffView|GraphCanvas)[^\\/]+)\.tsx?$/,
              minShareCount: 3,
            },
          ],
        },
      },
    },
  },
  server: { proxy },
  preview: { proxy },
});
