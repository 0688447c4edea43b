// The types of the API client, from the OpenAPI document that the binary serves.
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import openapiTS, { astToString } from 'openapi-typescript';
import { Server } from './tests/harness.mjs';

const server = await new Server().start();
try {
  const document = await server.ask('GET', '/openapi.json');
  writeFileSync(join(import.meta.dirname, 'src/api/schema.ts'), astToString(await openapiTS(document)));
} finally {
  await server.end();
}
