// The keyboard: one listener for the page, and screens that add what they answer to while they are shown.
import { useLayoutEffect, useRef } from 'preact/hooks';

export type Keys = Record<string, (event: KeyboardEvent) => void>;

const layers: { current: Keys }[] = [];

function isTyping(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  if (target instanceof HTMLInputElement) return !['checkbox', 'radio', 'range', 'button'].includes(target.type);
  return target instanceof HTMLTextAreaElement || target instanceof HTMLSelectElement || target.isContentEditable;
}

/** Enter on a link or a button, and Space on a button, are the browser's: they do what is under the focus. */
function isPressed({ key, target }: KeyboardEvent): boolean {
  return (key === 'Enter' || key === ' ') && target instanceof HTMLElement && target.closest('a[href], button, summary, input, [role=option]') !== null;
}

addEventListener('keydown', (event) => {
  if (event.defaultPrevented || isPressed(event)) return;
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (isTyping(event.target) && event.key !== 'Escape') return;
  if (document.querySelector('dialog[open]') && event.key !== 'Escape') return;
  const act = layers.findLast(({ current }) => current[event.key])?.current[event.key];
  if (act) {
    event.preventDefault();
    act(event);
  }
});

/** What the newest rendering says holds at once: keys may come faster than the page is drawn. */
export function useKeys(keys: Keys) {
  const newest = useRef(keys);
  newest.current = keys;
  useLayoutEffect(() => {
    layers.push(newest);
    return () => void layers.splice(layers.indexOf(newest), 1);
  }, []);
}
