// Icons as paths: fonts differ in what they have.
const PATHS = {
  copy: 'M5.5 5.5V3a1 1 0 0 1 1-1H13a1 1 0 0 1 1 1v6.5a1 1 0 0 1-1 1h-2.5M3 5.5h6.5a1 1 0 0 1 1 1V13a1 1 0 0 1-1 1H3a1 1 0 0 1-1-1V6.5a1 1 0 0 1 1-1z',
  done: 'M3 8.5l3.5 3.5L13 4.5',
  first: 'M4 3v10M13 3L6.5 8l6.5 5z',
  previous: 'M11 3L4.5 8l6.5 5z',
  next: 'M5 3l6.5 5L5 13z',
  last: 'M12 3v10M3 3l6.5 5L3 13z',
  fork: 'M4.5 14V2M4.5 10c0-4 7-2 7-6.5M11.5 3.5V2',
  close: 'M3.5 3.5l9 9M12.5 3.5l-9 9',
};

export function Icon({ of }: { of: keyof typeof PATHS }) {
  return (
    <svg class="icon" viewBox="0 0 16 16" width="14" height="14" aria-hidden="true" fill="none" stroke="currentColor" stroke-width="1.5" stroke-linecap="round" stroke-linejoin="round">
      <path d={PATHS[of]} />
    </svg>
  );
}
