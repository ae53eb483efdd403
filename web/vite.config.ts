import { fileURLToPath } from "node:url";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

const server = process.env.BERTH_URL ?? "http://127.0.0.1:8080";
// The host stays as the browser sent it: the server compares it with the origin of every change.
const proxy = Object.fromEntries(
  ["/api", "/docs"].map(path => [path, { target: server, changeOrigin: false }]),
);

export default defineConfig({
  plugins: [react()],
  resolve: { alias: { "@": fileURLToPath(new URL("./src", import.meta.url)) } },
  build: {
    manifest: true,
    // Fonts and icons stay files: the policy of the server allows data: for images only.
    assetsInlineLimit: 0,
    chunkSizeWarningLimit: 700,
    rolldownOptions: {
      output: {
        // What every page needs is one file: many small ones compress badly.
        codeSplitting: {
          groups: [
            {
              name: "vendor",
              test: /node_modules[\\/](react|react-dom|scheduler|@tanstack|openapi-fetch)[\\/]/,
            },
            {
              name: "shared",
              // Folders of ui/ are for some of the pages.
              test: /src[\\/]((api|data|theme|format)[\\/].*|ui[\\/][^\\/]+)\.tsx?$/,
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
