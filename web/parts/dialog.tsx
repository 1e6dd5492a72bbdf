"use client";
import { useEffect, useRef } from "react";

/** A dialog that the browser itself keeps the focus in, and Esc closes. */
export function Dialog({ open, onClose, label, className = "sheet", children }: {
  open: boolean;
  onClose: () => void;
  label: string;
  className?: string;
  children: React.ReactNode;
}) {
  const ref = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    if (open && !ref.current?.open) ref.current?.showModal();
    if (!open && ref.current?.open) ref.current.close();
  }, [open]);
  return (
    <dialog
      ref={ref}
      className={className}
      aria-label={label}
      onClose={onClose}
      onClick={(event) => event.target === ref.current && onClose()}
    >
      {open && children}
    </dialog>
  );
}
