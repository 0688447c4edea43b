import { Time } from '../../ui/basics';
import { Icon } from '../../ui/icon';

interface Props {
  height: number;
  head: number;
  firstHeight: number;
  isFollowing: boolean;
  isLive: boolean;
  logical?: string;
  select: (height: number | undefined) => void;
  step: (direction: 1 | -1) => void;
}

export function Slider({ height, head, firstHeight, isFollowing, isLive, logical, select, step }: Props) {
  const newest = Math.max(0, head - 1);
  const share = newest === 0 ? 0 : (firstHeight / newest) * 100;
  return (
    <section class="slider" aria-label="Height">
      <div class="slider-buttons">
        <button type="button" title="First record (Home)" aria-label="First record" onClick={() => select(0)}><Icon of="first" /></button>
        <button type="button" title="Previous step ([)" aria-label="Previous step" onClick={() => step(-1)}><Icon of="previous" /></button>
        <button type="button" title="Next step (])" aria-label="Next step" onClick={() => step(1)}><Icon of="next" /></button>
        <button type="button" title="Newest record (End)" aria-label="Newest record" onClick={() => select(newest)}><Icon of="last" /></button>
      </div>
      <div class="slider-track">
        <input type="range" min={0} max={newest} step={1} value={height} aria-label="Height of the world" aria-valuetext={`after record ${height} of ${newest}`}
          onInput={(event) => select(Number(event.currentTarget.value))} />
        {firstHeight > 0 && <span class="inherited-mark" style={{ width: `${share}%` }} title={`Records below ${firstHeight} are the parent’s`} />}
      </div>
      <label class="slider-at">
        <span class="sr">Height</span>
        <input type="number" min={0} max={newest} value={height} aria-label="Go to a height" onChange={(event) => select(Number(event.currentTarget.value))} />
        <span class="mute">of {newest.toLocaleString('en-US')}</span>
      </label>
      <span class="slider-time">{logical ? <Time at={logical} as="full" /> : ' '}</span>
      <button type="button" class={`live ${isFollowing ? 'on' : ''}`} aria-pressed={isFollowing} title="Follow the newest record (l)" onClick={() => select(isFollowing ? height : undefined)}>
        <span class={`pulse ${isFollowing && isLive ? 'on' : ''}`} aria-hidden="true" /> {isFollowing ? (isLive ? 'Live' : 'Reconnecting…') : 'Go live'}
      </button>
    </section>
  );
}
