import Link from "@/parts/link";
import { Main } from "@/parts/shell";

export default function NotFound() {
  return (
    <Main>
      <h1>There is no such page</h1>
      <p className="lede">
        <Link href="/">The overview</Link> leads to all of them.
      </p>
    </Main>
  );
}
