/** Berth's logo. */
export function Logo({ size = 28 }: { size?: number }) {
  return (
    <svg width={size} height={size} viewBox="0 0 32 32" aria-hidden="true">
      <rect width="32" height="32" rx="8" fill="#0e6675" />
      <path
        d="M16 7.5a2.6 2.6 0 1 1 0 5.2 2.6 2.6 0 0 1 0-5.2zm0 5.2v11.6M11.6 16h8.8M7.6 18.6c.6 3.6 4 5.9 8.4 5.9s7.8-2.3 8.4-5.9"
        fill="none"
        stroke="#f4f1e8"
        strokeWidth="2.2"
        strokeLinecap="round"
        strokeLinejoin="round"
      />
    </svg>
  );
}
