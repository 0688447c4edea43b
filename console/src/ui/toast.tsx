// A line at the edge of the page that says what was done.
import { useEffect, useState } from 'preact/hooks';

let show: (text: string) => void = () => {};

export function toast(text: string) {
  show(text);
}

const SHOWN_MS = 6_000;

export function Toasts() {
  const [text, set] = useState('');
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout>;
    show = (given) => {
      set(given);
      clearTimeout(timer);
      timer = setTimeout(() => set(''), SHOWN_MS);
    };
    return () => clearTimeout(timer);
  }, []);
  return (
    <div class={`toast ${text ? 'on' : ''}`} role="status" aria-live="polite">
      {text}
    </div>
  );
}
