// The keyboard: one listener for the page, and screens that add what they answer to while they are shown.
import { useEffect } from 'preact/hooks';

export type Keys = Record<string, (event: KeyboardEvent) => void>;

const layers: Keys[] = [];

function isTyping(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  if (target instanceof HTMLInputElement) return !['checkbox', 'radio', 'range', 'button'].includes(target.type);
  return target instanceof HTMLTextAreaElement || target instanceof HTMLSelectElement || target.isContentEditable;
}

addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (isTyping(event.target) && event.key !== 'Escape') return;
  if (document.querySelector('dialog[open]') && event.key !== 'Escape') return;
  const layer = layers.findLast((keys) => keys[event.key]);
  if (layer?.[event.key]) {
    event.preventDefault();
    layer[event.key]!(event);
  }
});

export function useKeys(keys: Keys) {
  useEffect(() => {
    layers.push(keys);
    return () => void layers.splice(layers.indexOf(keys), 1);
  });
}
