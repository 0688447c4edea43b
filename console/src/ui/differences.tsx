import type { Difference } from '../api/client';
import { gist } from '../lib/text';

export function Differences({ of, left, right }: { of: Difference[]; left: string; right: string }) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Cells that differ">
      <table class="differences">
        <thead>
          <tr>
            <th>Cell</th>
            <th>{left}</th>
            <th>{right}</th>
          </tr>
        </thead>
        <tbody>
          {of.map((difference) => (
            <tr key={difference.key}>
              <th scope="row">{difference.key}</th>
              <td class={'left' in difference ? 'was' : 'mute'}>{'left' in difference ? gist(difference.left, 300) : 'not there'}</td>
              <td class={'right' in difference ? 'is' : 'mute'}>{'right' in difference ? gist(difference.right, 300) : 'not there'}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
