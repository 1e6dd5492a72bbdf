// Lists and calls every tool with one of the npm clients; prints what came back as JSON.
// node every_tool.mjs v1|v2 http URL TOKEN | v1|v2 stdio COMMAND ARGS…   (calls on standard input)
import { readFileSync } from 'node:fs';

const [version, transport, ...rest] = process.argv.slice(2);
const calls = JSON.parse(readFileSync(0, 'utf8'));

async function load() {
  if (version === 'v2') {
    const main = await import('@modelcontextprotocol/client');
    const stdio = await import('@modelcontextprotocol/client/stdio');
    return { ...main, ...stdio };
  }
  const client = await import('@modelcontextprotocol/sdk/client/index.js');
  const http = await import('@modelcontextprotocol/sdk/client/streamableHttp.js');
  const stdio = await import('@modelcontextprotocol/sdk/client/stdio.js');
  return { ...client, ...http, ...stdio };
}

const { Client, StreamableHTTPClientTransport, StdioClientTransport } = await load();
const client = new Client({ name: 'tests', version: '1' });
if (transport === 'http') {
  const [url, token] = rest;
  const headers = { authorization: `Bearer ${token}` };
  await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }));
} else {
  const [command, ...args] = rest;
  const options = { command, args, env: process.env, stderr: 'inherit' };
  await client.connect(new StdioClientTransport(options));
}

const names = (await client.listTools()).tools.map((tool) => tool.name);
const answers = {};
for (const name of names) {
  const found = await client.callTool({ name, arguments: calls[name] });
  answers[name] = {
    is_error: found.isError ?? false,
    text: found.content[0].text,
    structured: found.structuredContent ?? null,
  };
}
await client.close();
process.stdout.write(JSON.stringify({ names, answers }));
process.exit(0);
